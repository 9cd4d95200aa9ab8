// A Gearman worker with Node's abraxas.
// Use: node worker_abraxas.js HOST PORT BEHAVIOUR=FUNCTION...
const abraxas = require('abraxas')

const [host, port, ...functions] = process.argv.slice(2)
const behaviours = {
  upper(task) {
    console.log('done ' + task.payload)
    return task.payload.toUpperCase()
  },
  throw() { throw new Error('boom') },
  hang(task) { console.log('hanging ' + task.payload) }
}
const client = abraxas.Client.connect({ host, port: Number(port), defaultEncoding: 'utf8' })
for (const arg of functions) {
  const [behaviour, name] = arg.split('=')
  client.registerWorker(name, behaviours[behaviour])
}
