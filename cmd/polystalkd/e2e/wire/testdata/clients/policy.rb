# Ruby's beaneater in tubes with policies: policies_test.go says which. Use: ruby policy.rb HOST:PORT
require 'beaneater'

def check(what, got, want)
  raise "#{what}: got #{got.inspect}, want #{want.inspect}" unless want === got
end

def refused(what, error)
  yield
  raise "#{what}: no error"
rescue error
end

worker = lambda do
  client = Beaneater.new(ARGV.fetch(0))
  client.tubes.watch!('retry.ruby')
  client
end
client = Beaneater.new(ARGV.fetch(0))
id = client.tubes['retry.ruby'].put('first', ttr: 60)[:id]
client.close
client = worker.call
1.upto(3) do |attempt|
  job = client.tubes.reserve(10)
  check 'job', [job.id, job.body, job.stats.reserves], [id, 'first', attempt]
  if attempt == 2
    client.close # its worker is lost
    client = worker.call
  else
    job.release
  end
end
refused('a fourth attempt', Beaneater::TimedOutError) { client.tubes.reserve(0) }
tube = client.tubes['retry.ruby']
check 'peek buried', tube.peek(:buried).id, id
check 'releases', tube.peek(:buried).stats.releases, 2
tube.kick(1)
client.tubes.reserve(0).delete

full = client.tubes['full.ruby']
full.put('one')
refused('a full tube', Beaneater::OutOfMemoryError) { full.put("use other.ruby\r\nput 0 0 1 3\r\ntwo") }
client.tubes['other.ruby'].put('two')
check 'full', [full.stats.current_jobs_ready, full.stats.total_jobs, full.peek(:ready).body], [1, 1, 'one']
check 'other', [client.tubes['other.ruby'].stats.total_jobs, client.tubes['other.ruby'].peek(:ready).body], [1, 'two']
client.close
puts 'ok'
