// jackd. Use: node jackd.js put|work
const Jackd = require('jackd').default || require('jackd')

const host = process.env.BEANSTALKD_HOST || '127.0.0.1'
const port = Number(process.env.BEANSTALKD_PORT || 11300)
const tube = 'jackd-mail'

async function connect() {
  const queue = new Jackd()
  // jackd 2.2 begins to listen for a reply after the write has ended, and misses an earlier one.
  queue.write = async bytes => { queue.socket.write(bytes) }
  await queue.connect({ host, port })
  return queue
}

async function put() {
  const queue = await connect()
  await queue.use(tube)
  for (const to of ['alice', 'bob', 'nobody']) {
    const id = await queue.put({ to }, { priority: 100, delay: 0, ttr: 60 })
    console.log(`put job ${id}`)
  }
  await queue.quit()
}

async function work() {
  const queue = await connect()
  await queue.watch(tube)
  await queue.ignore('default')
  for (;;) {
    const job = await queue.reserve()
    const { to } = JSON.parse(job.payload)
    if (to === 'nobody') {
      await queue.bury(job.id)
    } else {
      console.log(`sent to ${to}`)
      await queue.delete(job.id)
    }
  }
}

({ put, work })[process.argv[2]]()
