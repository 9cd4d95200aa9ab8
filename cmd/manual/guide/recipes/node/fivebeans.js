// fivebeans, with its worker. Use: node fivebeans.js put|work
const fivebeans = require('fivebeans')

const host = process.env.BEANSTALKD_HOST || '127.0.0.1'
const port = Number(process.env.BEANSTALKD_PORT || 11300)
const tube = 'fivebeans-mail'

function put() {
  const queue = new fivebeans.client(host, port)
  queue.on('connect', () => queue.use(tube, () => {
    const mails = ['alice', 'bob', 'nobody']
    const next = () => {
      const to = mails.shift()
      if (!to) return queue.quit(() => {})
      // The worker looks for the handler of the type.
      const body = JSON.stringify({ type: 'mail', payload: { to } })
      queue.put(100, 0, 60, body, (err, id) => {
        if (err) throw err
        console.log(`put job ${id}`)
        next()
      })
    }
    next()
  }))
  queue.connect()
}

function work() {
  const mail = {
    type: 'mail',
    // The callback gets success, bury, or release and a delay in seconds.
    work({ to }, done) {
      if (to === 'nobody') return done('bury')
      console.log(`sent to ${to}`)
      done('success')
    }
  }
  const worker = new fivebeans.worker({ id: 'mailer', host, port, handlers: { mail }, ignoreDefault: true })
  worker.start([tube])
}

({ put, work })[process.argv[2]]()
