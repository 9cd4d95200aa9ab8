# Sends the mails of the tube ruby-mail until it is stopped. Use: ruby work.rb
require 'beaneater'
require 'json'

$stdout.sync = true
Thread.report_on_exception = false

def send_mail(to)
  raise "#{to} has no address" if to == 'nobody'

  puts "sent to #{to}"
end

queue = Beaneater.new("#{ENV.fetch('BEANSTALKD_HOST', '127.0.0.1')}:#{ENV.fetch('BEANSTALKD_PORT', 11300)}")
# Beaneater deletes the job after the block, and buries it after an exception.
queue.jobs.register('ruby-mail') do |job|
  to = JSON.parse(job.body)['to']
  work = Thread.new { send_mail(to) }
  # Long work: touch the job at each half of its time to run. join raises what the thread has raised.
  job.touch until work.join(job.ttr / 2.0)
end
queue.jobs.process!
