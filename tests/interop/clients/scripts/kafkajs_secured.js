// Write a record with kafkajs and read it back. Usage: kafkajs_secured.js JSON, see test_foreign_clients.arguments.
'use strict'

const fs = require('fs')
const { Kafka, logLevel } = require('kafkajs')

const asked = JSON.parse(process.argv[2])
const ssl = asked.ca && { ca: [fs.readFileSync(asked.ca)] }
if (asked.client) {
  ssl.key = ssl.cert = fs.readFileSync(asked.client)
}
const sasl = asked.mechanism && {
  mechanism: asked.mechanism.toLowerCase(),
  username: asked.user,
  password: asked.password
}
const kafka = new Kafka({
  clientId: 'me',
  brokers: [asked.servers],
  logLevel: logLevel.NOTHING,
  ...(ssl && { ssl }),
  ...(sasl && { sasl })
})

async function main () {
  const producer = kafka.producer()
  await producer.connect()
  await producer.send({ topic: asked.topic, messages: [{ value: 'hello' }] })
  await producer.disconnect()
  const consumer = kafka.consumer({ groupId: `group-of-${asked.topic}` })
  await consumer.connect()
  await consumer.subscribe({ topic: asked.topic, fromBeginning: true })
  const value = await new Promise(resolve => {
    consumer.run({ eachMessage: async ({ message }) => resolve(message.value.toString()) })
  })
  await consumer.disconnect()
  console.log(JSON.stringify(value))
}

main().catch(error => { console.error(error); process.exit(1) })
