// A Gearman client with Node's abraxas; a line for every job.
// Use: node client_abraxas.js HOST PORT (fg|bg FUNCTION PAYLOAD)...
const abraxas = require('abraxas')

const [host, port, ...args] = process.argv.slice(2)
const client = abraxas.Client.connect({ host, port: Number(port), defaultEncoding: 'utf8' })

function run(mode, name, payload) {
  return new Promise(resolve => {
    const submit = mode === 'bg' ? client.submitJobBg : client.submitJob
    submit.call(client, name, {}, payload, (err, result) => {
      if (!err) return resolve(mode === 'bg' ? 'created' : 'result ' + result)
      if (err.name !== 'JobFail' && err.name !== 'JobException') return resolve('error ' + err)
      // Others wrap it in a format of their own.
      resolve(err.name === 'JobFail' ? 'fail' : 'exception ' + (err.message.includes('boom') ? 'boom' : err.message))
    })
  })
}

async function main() {
  for (let i = 0; i < args.length; i += 3) console.log(await run(args[i], args[i + 1], args[i + 2]))
  // On one connection with the packets, a line of text.
  await new Promise(resolve => client.status().then(resolve))
  client.disconnect()
}
main()
