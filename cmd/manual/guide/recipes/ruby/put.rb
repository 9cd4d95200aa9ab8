# Puts three mails into the tube ruby-mail. Use: ruby put.rb
require 'beaneater'
require 'json'

queue = Beaneater.new("#{ENV.fetch('BEANSTALKD_HOST', '127.0.0.1')}:#{ENV.fetch('BEANSTALKD_PORT', 11300)}")
%w[alice bob nobody].each do |to|
  job = queue.tubes['ruby-mail'].put(JSON.generate(to: to), pri: 100, delay: 0, ttr: 60)
  puts "put job #{job[:id]}"
end
