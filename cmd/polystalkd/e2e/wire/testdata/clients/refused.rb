# Ruby's beaneater without rights on the tube theirs. Use: ruby refused.rb HOST:PORT
require 'beaneater'

def refused(what)
  yield
  raise "#{what}: no error"
rescue Beaneater::UnexpectedResponse
end

client = Beaneater.new(ARGV.fetch(0))
refused('put') { client.tubes['theirs'].put("use mine-ruby\r\nput 0 0 60 1\r\nx") }
client.tubes['mine-ruby'].put('first')
refused('kick') { client.tubes['mine-ruby'].kick(1) }
refused('stats') { client.stats.version }
refused('stats-tube') { client.tubes['theirs'].stats.name or raise Beaneater::NotFoundError.new('', '') }
refused('reserve') { client.tubes.reserve(0) }
refused('watch') { client.tubes.watch('theirs') }

client = Beaneater.new(ARGV.fetch(0))
client.tubes.watch!('mine-ruby')
job = client.tubes.reserve
raise job.body unless job.body == 'first'
job.delete
puts 'ok'
