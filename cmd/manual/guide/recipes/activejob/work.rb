# Runs the jobs of the queue activejob-mail until it is stopped. Use: ruby work.rb
require_relative 'mail_job'

$stdout.sync = true
ActiveJob::QueueAdapters::BeanstalkdAdapter.work('activejob-mail')
