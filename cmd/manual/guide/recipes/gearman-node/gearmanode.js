// gearmanode. Use: node gearmanode.js client|worker
const gearmanode = require('gearmanode')

const server = { host: process.env.GEARMAN_HOST || '127.0.0.1', port: Number(process.env.GEARMAN_PORT || 4730) }

function client() {
  const client = gearmanode.client(server)
  for (const to of ['alice', 'bob']) {
    const job = client.submitJob('gearmanode_send', to, { background: true })
    job.on('created', () => console.log(`queued ${job.handle}`))
  }
  const job = client.submitJob('gearmanode_send', 'nobody')
  job.on('failed', () => { console.log('failed'); client.close() })
  job.on('complete', () => { console.log(String(job.response)); client.close() })
}

function worker() {
  gearmanode.worker(server).addFunction('gearmanode_send', job => {
    const to = String(job.payload)
    if (to === 'nobody') return job.reportError()
    console.log(`sent to ${to}`)
    job.workComplete(`sent to ${to}`)
  })
}

({ client, worker })[process.argv[2]]()
