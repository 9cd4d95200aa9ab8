# An adapter of Active Job for beanstalkd's protocol. In Rails, put it into lib, require it in
# config/application.rb, and set config.active_job.queue_adapter = :beanstalkd there.
require 'active_job'
require 'beaneater'
require 'json'

module ActiveJob
  module QueueAdapters
    class BeanstalkdAdapter
      TTR = 90 # the time to run, in seconds: longer than the longest job

      def self.connect
        Beaneater.new("#{ENV.fetch('BEANSTALKD_HOST', '127.0.0.1')}:#{ENV.fetch('BEANSTALKD_PORT', 11300)}")
      end

      def enqueue(job)
        enqueue_at(job, Time.now.to_f)
      end

      def enqueue_at(job, time)
        Thread.current[:beanstalkd] ||= self.class.connect
        put = Thread.current[:beanstalkd].tubes[job.queue_name].put(
          JSON.generate(job.serialize),
          pri: job.priority || 100, delay: [(time - Time.now.to_f).ceil, 0].max, ttr: TTR
        )
        job.provider_job_id = put[:id]
      end

      # Runs the jobs of the queues until the process is stopped.
      def self.work(*queues)
        client = connect
        client.tubes.watch!(*queues)
        loop do
          job = client.tubes.reserve
          begin
            Base.execute(JSON.parse(job.body))
            job.delete
          rescue StandardError => e
            warn "buried job #{job.id}: #{e.message}"
            job.bury
          end
        end
      end
    end
  end
end
