// kafkajs's transactional producer, driven over standard input and output: a line of JSON with the name of a producer and
// what it shall do comes in, a line with the result or the type of the error goes out.

const readline = require('readline')
const { Kafka, logLevel } = require('kafkajs')

const producers = {}
const transactions = {}

const actions = {
  async producer({ name, settings }) {
    const kafka = new Kafka({ brokers: [settings['bootstrap.servers']], logLevel: logLevel.NOTHING })
    const timeout = settings['transaction.timeout.ms']
    producers[name] = kafka.producer({
      transactionalId: settings['transactional.id'],
      idempotent: true,
      maxInFlightRequests: 1,
      ...(timeout ? { transactionTimeout: Number(timeout) } : {}),
    })
  },
  async init({ name }) {
    await producers[name].connect()
    await (await producers[name].transaction()).abort() // it asks for its producer id with the first transaction
  },
  async begin({ name }) {
    transactions[name] = await producers[name].transaction()
  },
  async send({ name, topic, partition, value }) {
    await transactions[name].send({ topic, messages: [{ partition, value }] })
  },
  async flush() {},
  async send_offsets({ name, topic, partition, offset, group }) {
    const topics = [{ topic, partitions: [{ partition, offset: String(offset) }] }]
    await transactions[name].sendOffsets({ consumerGroupId: group, topics })
  },
  async commit({ name }) {
    await transactions[name].commit()
  },
  async abort({ name }) {
    await transactions[name].abort()
  },
  async close({ name }) {
    delete producers[name] // not disconnected: that would wait for its transaction
  },
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const order = JSON.parse(line)
    let answer
    try {
      answer = (await actions[order.do](order)) || {}
    } catch (error) {
      answer = { error: error.type || error.name, message: error.message }
    }
    console.log(JSON.stringify(answer))
  }
  process.exit(0)
}

main()
