// node-beanstalk. Use: node node-beanstalk.js put|work
const { Client } = require('node-beanstalk')

const host = process.env.BEANSTALKD_HOST || '127.0.0.1'
const port = Number(process.env.BEANSTALKD_PORT || 11300)
const tube = 'node-beanstalk-mail'

async function put() {
  const queue = new Client({ host, port })
  await queue.connect()
  await queue.use(tube)
  for (const to of ['alice', 'bob', 'nobody']) {
    const job = await queue.put({ to }, 60, 100, 0) // time to run, priority, delay
    console.log(`put job ${job.id}`)
  }
  await queue.disconnect()
}

async function work() {
  const queue = new Client({ host, port })
  await queue.connect()
  await queue.watch(tube)
  await queue.ignore('default')
  for (;;) {
    const job = await queue.reserve()
    const { to } = job.payload
    if (to === 'nobody') {
      await queue.bury(job.id, 100)
    } else {
      console.log(`sent to ${to}`)
      await queue.delete(job.id)
    }
  }
}

({ put, work })[process.argv[2]]()
