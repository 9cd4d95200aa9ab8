// node-gearman. Use: node node-gearman.js client|worker
const Gearman = require('node-gearman')

const queue = new Gearman(process.env.GEARMAN_HOST || '127.0.0.1', Number(process.env.GEARMAN_PORT || 4730))

// node-gearman knows no background jobs: it waits for each.
function client() {
  let open = 3
  const done = text => {
    console.log(text)
    if (--open === 0) queue.close()
  }
  for (const to of ['alice', 'bob', 'nobody']) {
    const job = queue.submitJob('node_gearman_send', to)
    job.on('data', data => done(String(data)))
    job.on('error', () => done('failed'))
  }
}

function worker() {
  queue.registerWorker('node_gearman_send', (payload, job) => {
    const to = String(payload)
    if (to === 'nobody') return job.error()
    console.log(`sent to ${to}`)
    job.end(`sent to ${to}`)
  })
}

({ client, worker })[process.argv[2]]()
