# Sends the mails of the tube ruby-mail until it is stopped. Use: ruby work.rb
require 'beaneater'
require 'json'

$stdout.sync = true
queue = Beaneater.new("#{ENV.fetch('BEANSTALKD_HOST', '127.0.0.1')}:#{ENV.fetch('BEANSTALKD_PORT', 11300)}")
# Beaneater deletes the job after the block, and buries it after an exception.
queue.jobs.register('ruby-mail') do |job|
  to = JSON.parse(job.body)['to']
  raise "#{to} has no address" if to == 'nobody'

  puts "sent to #{to}"
end
queue.jobs.process!
