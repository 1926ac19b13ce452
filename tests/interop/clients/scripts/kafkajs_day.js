// kafkajs as a whole day: topics, idempotent writing, a group with a rebalance, offsets, the admin's questions.
// Usage: kafkajs_day.js BOOTSTRAP TOPIC GROUP; the topic is made here, and what happened is printed as JSON.
'use strict'

const { Kafka, CompressionTypes, ConfigResourceTypes, logLevel } = require('kafkajs')

const [bootstrap, topic, group] = process.argv.slice(2)
const kafka = new Kafka({ clientId: 'me', brokers: [bootstrap], logLevel: logLevel.NOTHING, retry: { retries: 5 } })
const told = {}
const numbers = [...Array(1000).keys()]

async function until (condition, what) {
  const deadline = Date.now() + 30000
  while (!await condition()) {
    if (Date.now() > deadline) throw new Error(`waited too long for ${what}`)
    await new Promise(resolve => setTimeout(resolve, 20))
  }
}

async function topics (admin) {
  const configEntries = [{ name: 'max.message.bytes', value: '100000' }]
  told.created = [
    await admin.createTopics({ topics: [{ topic, numPartitions: 2, replicationFactor: 1, configEntries }] }),
    await admin.createTopics({ topics: [{ topic, numPartitions: 2 }] })
  ]
  await admin.createPartitions({ topicPartitions: [{ topic, count: 4 }] })
  const partitions = async () => (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions
  await until(async () => (await partitions()).length === 4, 'four partitions')
  told.leaders = (await partitions()).map(one => [one.leader, ...one.isr])
  const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic, configNames: ['max.message.bytes'] }]
  const described = await admin.describeConfigs({ resources })
  told.config = described.resources[0].configEntries.map(entry => entry.configValue)
  const cluster = await admin.describeCluster()
  told.cluster = [cluster.brokers.map(one => `${one.host}:${one.port}`), cluster.controller]
}

async function writing () {
  for (const compression of [CompressionTypes.None, CompressionTypes.GZIP]) {
    const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
    await producer.connect()
    const messages = numbers.map(n => ({ key: 'k', value: `${n}`, partition: n % 4, headers: { h: '1' } }))
    const stored = await producer.send({ topic, messages, compression })
    told[`base offsets ${compression}`] = stored.map(one => one.baseOffset).sort()
    await producer.disconnect()
  }
  const producer = kafka.producer()
  await producer.connect()
  const tooLarge = producer.send({ topic, messages: [{ value: 'x'.repeat(200000) }] })
  told.tooLarge = await tooLarge.then(() => 'was taken', error => error.type)
  await producer.disconnect()
}

async function member (seen) {
  // It neither beats nor rejoins while it waits for a fetch.
  const patience = { sessionTimeout: 6000, heartbeatInterval: 200, rebalanceTimeout: 6000, maxWaitTimeInMs: 100 }
  const consumer = kafka.consumer({ groupId: group, ...patience })
  const one = { consumer, partitions: [] }
  consumer.on(consumer.events.GROUP_JOIN, event => { one.partitions = event.payload.memberAssignment[topic] || [] })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({
    autoCommitInterval: 50,
    eachMessage: async ({ partition, message }) => {
      seen.set(`${partition}/${message.offset}`, [message.key, message.value, message.headers.h].join())
    }
  })
  return one
}

async function groups (admin) {
  const seen = new Map()
  const pair = [await member(seen), await member(seen)]
  await until(() => pair.every(one => one.partitions.length === 2), 'two partitions each')
  const offsets = async () => {
    const [fetched] = await admin.fetchOffsets({ groupId: group, topics: [topic] })
    return fetched.partitions.map(one => one.offset)
  }
  await until(() => seen.size === 2000, 'all records')
  await until(async () => (await offsets()).every(offset => offset === '500'), 'all offsets to be committed')
  told.seen = [...seen.values()].sort().join() === numbers.flatMap(n => [`k,${n},1`, `k,${n},1`]).sort().join()
  const listed = (await admin.listGroups()).groups.find(one => one.groupId === group)
  told.listed = listed && listed.protocolType
  const [described] = (await admin.describeGroups([group])).groups
  told.described = [described.state, described.protocol, described.members.map(one => one.clientId)]
  told.deletedWhileInUse = await admin.deleteGroups([group]).then(() => 'yes', error => error.groups[0].error.type)
  await pair[0].consumer.disconnect()
  await until(() => pair[1].partitions.length === 4, 'four partitions for the one that is left')
  await pair[1].consumer.disconnect()
  await admin.setOffsets({ groupId: group, topic, partitions: [{ partition: 0, offset: '7' }] })
  told.offsets = (await offsets()).sort()
  told.deleted = (await admin.deleteGroups([group])).map(one => one.errorCode || 0)
}

async function offsets (admin) {
  told.ends = (await admin.fetchTopicOffsets(topic)).map(one => [one.low, one.high])
  await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '30' }] })
  told.low = (await admin.fetchTopicOffsets(topic)).find(one => one.partition === 0).low
}

async function main () {
  const admin = kafka.admin()
  await admin.connect()
  await topics(admin)
  await writing()
  await groups(admin)
  await offsets(admin)
  await admin.deleteTopics({ topics: [topic] })
  await until(async () => !(await admin.listTopics()).includes(topic), 'the topic to be gone')
  await admin.disconnect()
  console.log(JSON.stringify(told))
}

main().then(() => process.exit(0), error => { console.error(error); process.exit(1) })
