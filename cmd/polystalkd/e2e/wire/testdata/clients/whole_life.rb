# Ruby's beaneater: a job's whole life. Use: ruby whole_life.rb HOST:PORT
require 'beaneater'

def check(what, got, want)
  raise "#{what}: got #{got.inspect}, want #{want.inspect}" unless want === got
end

client = Beaneater.new(ARGV.fetch(0))
tube = client.tubes['ruby.life']

put = tube.put('first', pri: 10, delay: 0, ttr: 60)
check 'put', put[:status], 'INSERTED'
id = put[:id]
check 'peek ready', tube.peek(:ready).body, 'first'
check 'peek delayed', tube.peek(:delayed), nil

client.tubes.watch!('ruby.life')
check 'watched', client.tubes.watched.map(&:name), ['ruby.life']

job = client.tubes.reserve(0)
check 'reserve', [job.id, job.body], [id, 'first']
check 'reserved?', job.reserved?, true
check 'ttr', job.ttr, 60
check 'pri', job.pri, 10
check 'tube', job.tube, 'ruby.life'
job.touch

begin
  client.tubes.reserve(0)
  raise 'reserve should time out'
rescue Beaneater::TimedOutError
end

job.release(pri: 5, delay: 100)
check 'stats after release', client.jobs.find(id).stats.state, 'delayed'
check 'peek delayed', tube.peek(:delayed).id, id
client.jobs.find(id).kick
job = client.tubes.reserve(0)
check 'kicks', job.stats.kicks, 1
check 'releases', job.stats.releases, 1

job.bury(pri: 3)
check 'peek buried', tube.peek(:buried).id, id
check 'buried', tube.stats.current_jobs_buried, 1
check 'kick', tube.kick(10)[:id], '1'

tube.pause(100)
check 'pause', tube.stats.pause, 100
begin
  client.tubes.reserve(0)
  raise 'a paused tube gives no job'
rescue Beaneater::TimedOutError
end
tube.pause(0)

job = client.tubes.reserve(10)
check 'after the pause', job.id, id
binary = (0..255).map(&:chr).join.b + "\r\n"
second = tube.put(binary)
check 'binary body', client.jobs.find(second[:id]).body.b, binary
job.delete
check 'deleted', client.jobs.find(id), nil
client.jobs.find(second[:id]).delete

check 'delete again', (begin
  job.delete
rescue Beaneater::NotFoundError
  :not_found
end), :not_found

check 'tubes', client.tubes.all.map(&:name).include?('ruby.life'), true
stats = client.stats
check 'ready', stats.current_jobs_ready, 0
check 'cmd_put', stats.cmd_put, (2..)
check 'version', stats.version.to_s.empty?, false
client.close
puts 'ok'
