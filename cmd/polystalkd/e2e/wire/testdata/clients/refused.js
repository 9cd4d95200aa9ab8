// Node's jackd without rights on the tube theirs. Use: node refused.js HOST PORT
const assert = require('assert')
const JackdClient = require('jackd').default || require('jackd')

async function connect() {
  const client = new JackdClient()
  // jackd listens for a reply only after the write has called back; a server
  // that is quicker than that would be waited for in vain.
  client.write = async buffer => { client.socket.write(buffer) }
  await client.connect({ host: process.argv[2], port: Number(process.argv[3]) })
  return client
}

async function main() {
  let client = await connect()
  const refused = (promise, message) => assert.rejects(promise, message)
  await client.use('theirs')
  await refused(client.put('use mine-node\r\nput 0 0 60 1\r\nx'), /UNKNOWN_COMMAND/)
  await client.use('mine-node')
  await client.put('first')
  await refused(client.kick(1), /UNKNOWN_COMMAND/)
  await refused(client.stats(), /UNKNOWN_COMMAND/)
  await refused(client.statsTube('theirs'), /NOT_FOUND/)
  await refused(client.reserveWithTimeout(0), /UNKNOWN_COMMAND/)
  await refused(client.watch('theirs'), /UNKNOWN_COMMAND/)

  client = await connect()
  await client.watch('mine-node')
  await client.ignore('default')
  const job = await client.reserve()
  assert.strictEqual(String(job.payload), 'first')
  await client.delete(job.id)
  await client.quit()
  console.log('ok')
}

main().catch(e => {
  console.error(e)
  process.exit(1)
})
