// A Gearman worker with Node's gearmanode.
// Use: node worker_gearmanode.js HOST PORT BEHAVIOUR=FUNCTION...
const gearmanode = require('gearmanode')

const [host, port, ...functions] = process.argv.slice(2)
const behaviours = {
  upper(job) {
    console.log('done ' + job.payload)
    job.workComplete(String(job.payload).toUpperCase())
  },
  fail(job) { job.reportError() },
  throw(job) { job.reportException('boom') },
  hang(job) { console.log('hanging ' + job.payload) }
}
const worker = gearmanode.worker({ host, port: Number(port) })
for (const arg of functions) {
  const [behaviour, name] = arg.split('=')
  worker.addFunction(name, behaviours[behaviour])
}
