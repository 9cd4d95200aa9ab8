# Puts three mails into the tube perl-mail. Use: perl -I. put.pl
use strict;
use warnings;
use Beanstalk;

my $queue = Beanstalk->new(($ENV{BEANSTALKD_HOST} // '127.0.0.1') . ':' . ($ENV{BEANSTALKD_PORT} // 11300));
$queue->use('perl-mail');
print 'put job ', $queue->put($_), "\n" for qw(alice bob nobody);
