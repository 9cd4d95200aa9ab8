// A Gearman client with Node's gearmanode; a line for every job.
// Use: node client_gearmanode.js HOST PORT (fg|bg FUNCTION PAYLOAD)...
const gearmanode = require('gearmanode')

const [host, port, ...args] = process.argv.slice(2)
const client = gearmanode.client({ host, port: Number(port) })

function run(mode, name, payload) {
  return new Promise(resolve => {
    const job = client.submitJob(name, payload, { background: mode === 'bg', toStringEncoding: 'utf8' })
    if (mode === 'bg') job.on('created', () => resolve('created'))
    job.on('complete', () => resolve('result ' + job.response))
    job.on('failed', () => resolve('fail'))
    // Others wrap it in a format of their own.
    job.on('exception', text => resolve('exception ' + (String(text).includes('boom') ? 'boom' : text)))
    job.on('error', err => resolve('error ' + err))
    client.once('jobServerError', (server, code, text) => resolve('error ' + code + ' ' + text)) // it does not know the job
  })
}

async function main() {
  const js = client.jobServers[0]
  await new Promise(resolve => {
    js.once('option', resolve)
    js.setOption('exceptions')
  })
  for (let i = 0; i < args.length; i += 3) console.log(await run(args[i], args[i + 1], args[i + 2]))
  client.close()
}
main()
