# Enqueues three mails. Use: ruby put.rb
require_relative 'mail_job'

%w[alice bob nobody].each { |to| MailJob.perform_later(to) }
