require_relative 'beanstalkd_adapter'

ActiveJob::Base.queue_adapter = :beanstalkd
ActiveJob::Base.logger = nil

class MailJob < ActiveJob::Base
  queue_as 'activejob-mail'
  retry_on RuntimeError, wait: 0, attempts: 2

  def perform(to)
    raise "#{to} has no address" if to == 'nobody'

    puts "sent to #{to}"
  end
end
