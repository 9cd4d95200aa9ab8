// The package beanstalkd, a client. Use: node beanstalkd.js put|work
const Beanstalkd = require('beanstalkd').default || require('beanstalkd')

const host = process.env.BEANSTALKD_HOST || '127.0.0.1'
const port = Number(process.env.BEANSTALKD_PORT || 11300)
const tube = 'beanstalkd-mail'

async function put() {
  const queue = await new Beanstalkd(host, port).connect()
  await queue.use(tube)
  for (const to of ['alice', 'bob', 'nobody']) {
    const id = await queue.put(100, 0, 60, JSON.stringify({ to })) // priority, delay, time to run
    console.log(`put job ${id}`)
  }
  queue.quit()
}

async function work() {
  const queue = await new Beanstalkd(host, port).connect()
  await queue.watch(tube)
  await queue.ignore('default')
  for (;;) {
    const [id, body] = await queue.reserve()
    const { to } = JSON.parse(body)
    if (to === 'nobody') {
      await queue.bury(id, 100)
    } else {
      console.log(`sent to ${to}`)
      await queue.delete(id)
    }
  }
}

({ put, work })[process.argv[2]]()
