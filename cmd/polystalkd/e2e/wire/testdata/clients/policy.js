// Node's jackd in tubes with policies: policies_test.go says which. Use: node policy.js HOST PORT
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

async function worker() {
  const client = await connect()
  await client.watch('retry.node')
  await client.ignore('default')
  return client
}

async function main() {
  let w = await worker()
  const producer = await connect()
  const count = async (stats, key) => Number(new RegExp(`^${key}: (\\d+)$`, 'm').exec(await stats)[1])
  await producer.use('retry.node')
  const id = await producer.put('first')
  for (let attempt = 1; attempt <= 3; attempt++) {
    const job = await w.reserveWithTimeout(10)
    assert.deepStrictEqual([job.id, String(job.payload)], [id, 'first'])
    assert.strictEqual(await count(w.statsJob(id), 'reserves'), attempt)
    if (attempt === 2) {
      await w.quit() // it is lost
      w = await worker()
    } else {
      await w.release(id)
    }
  }
  await assert.rejects(w.reserveWithTimeout(0), /TIMED_OUT/)
  assert.strictEqual((await producer.peekBuried()).id, id)
  assert.strictEqual(await count(producer.statsJob(id), 'releases'), 2)
  await producer.kick(1)
  await w.delete((await w.reserveWithTimeout(0)).id)

  await producer.use('full.node')
  await producer.put('one')
  await assert.rejects(producer.put('use other.node\r\nput 0 0 1 3\r\ntwo'), /OUT_OF_MEMORY/)
  await producer.use('other.node')
  await producer.put('two')
  assert.strictEqual(String((await producer.peekReady()).payload), 'two')
  assert.strictEqual(await count(producer.statsTube('other.node'), 'total-jobs'), 1)
  assert.strictEqual(await count(producer.statsTube('full.node'), 'total-jobs'), 1)
  await producer.use('full.node')
  assert.strictEqual(String((await producer.peekReady()).payload), 'one')
  await producer.quit()
  await w.quit()
  console.log('ok')
}

main().catch(e => {
  console.error(e)
  process.exit(1)
})
