// abraxas. Use: node abraxas.js client|worker
const abraxas = require('abraxas')

const queue = abraxas.Client.connect({
  host: process.env.GEARMAN_HOST || '127.0.0.1',
  port: Number(process.env.GEARMAN_PORT || 4730),
  defaultEncoding: 'utf8'
})

async function client() {
  for (const to of ['alice', 'bob']) await queue.submitJobBg('abraxas_send', to)
  try {
    console.log(await queue.submitJob('abraxas_send', 'nobody'))
  } catch (err) {
    console.log('failed')
  }
  queue.disconnect()
}

function worker() {
  queue.registerWorker('abraxas_send', task => {
    if (task.payload === 'nobody') throw new Error('nobody has no address')
    console.log(`sent to ${task.payload}`)
    return `sent to ${task.payload}`
  })
}

({ client, worker })[process.argv[2]]()
