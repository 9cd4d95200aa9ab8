// Node's jackd: a job's whole life. Use: node whole_life.js HOST PORT
const assert = require('assert')
const JackdClient = require('jackd').default || require('jackd')

// jackd hands YAML over as text.
function value(yaml, key) {
  const line = String(yaml).split('\n').find(l => l.startsWith(key + ': '))
  assert(line, `no ${key} in ${yaml}`)
  return line.slice(key.length + 2).replace(/^"(.*)"$/, '$1')
}

async function fails(promise, message) {
  try {
    await promise
  } catch (e) {
    assert.match(String(e.message || e), message)
    return
  }
  assert.fail(`should have failed with ${message}`)
}

async function main() {
  const client = new JackdClient()
  // jackd listens for a reply only after the write has called back; a server
  // that is quicker than that would be waited for in vain.
  client.write = async buffer => { client.socket.write(buffer) }
  await client.connect({ host: process.argv[2], port: Number(process.argv[3]) })
  await client.use('node.life')
  assert.strictEqual(await client.listTubeUsed(), 'node.life')
  await client.watch('node.life')
  assert.strictEqual(Number(await client.ignore('default')), 1)

  const id = await client.put('first', { priority: 10, delay: 0, ttr: 60 })
  assert.strictEqual(String((await client.peekReady()).payload), 'first')
  await fails(client.peekDelayed(), /NOT_FOUND/)

  let job = await client.reserve()
  assert.strictEqual(job.id, id)
  assert.strictEqual(String(job.payload), 'first')
  await client.touch(id)
  let stats = await client.statsJob(id)
  assert.strictEqual(value(stats, 'state'), 'reserved')
  assert.strictEqual(value(stats, 'tube'), 'node.life')
  assert.strictEqual(value(stats, 'ttr'), '60')
  await fails(client.reserveWithTimeout(0), /TIMED_OUT/)

  await client.release(id, { priority: 5, delay: 100 })
  assert.strictEqual((await client.peekDelayed()).id, id)
  await client.kickJob(id)
  job = await client.reserveWithTimeout(10)
  assert.strictEqual(value(await client.statsJob(id), 'kicks'), '1')

  await client.bury(id, 3)
  assert.strictEqual((await client.peekBuried()).id, id)
  assert.strictEqual(value(await client.statsTube('node.life'), 'current-jobs-buried'), '1')
  assert.strictEqual(Number(await client.kick(10)), 1)

  // jackd forgets the line end of this one command.
  await client.pauseTube('node.life', { delay: '100\r\n' })
  await fails(client.reserveWithTimeout(0), /TIMED_OUT/)
  job = await client.reserveJob(id)
  assert.strictEqual(job.id, id)
  await client.release(id, { priority: 0, delay: 0 })

  const text = 'NUL \0, line end \r\n, \u00e9, \u{1f98a}\r\n'
  const second = await client.put(text)
  assert.strictEqual(String((await client.peek(second)).payload), text)

  await client.delete(id)
  await client.delete(second)
  await fails(client.delete(id), /NOT_FOUND/)
  assert.match(String(await client.listTubes()), /\n- node\.life\n/)
  assert.strictEqual(String(await client.listTubesWatched()), '---\n- node.life\n')
  assert.strictEqual(value(await client.stats(), 'current-jobs-ready'), '0')

  // Sent all at once, answered in order.
  const ids = await Promise.all(Array.from({ length: 100 }, (_, i) => client.put(`job ${i}`)))
  await client.pauseTube('node.life', { delay: '0\r\n' })
  for (const id of ids) assert.strictEqual((await client.reserve()).id, id)
  await Promise.all(ids.map(id => client.delete(id)))
  await client.quit()
  console.log('ok')
}

main().catch(e => {
  console.error(e)
  process.exit(1)
})
