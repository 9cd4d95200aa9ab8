# Sends the mails of the tube perl-mail until it is stopped. Use: perl -I. work.pl
use strict;
use warnings;
use Beanstalk;

$| = 1;
my $queue = Beanstalk->new(($ENV{BEANSTALKD_HOST} // '127.0.0.1') . ':' . ($ENV{BEANSTALKD_PORT} // 11300));
$queue->watch('perl-mail');
$queue->ignore('default');
while (1) {
    my ($job, $to) = $queue->reserve;
    if ($to eq 'nobody') {
        warn "buried job $job: $to has no address\n";
        $queue->bury($job);
    } else {
        print "sent to $to\n";
        $queue->delete($job);
    }
}
