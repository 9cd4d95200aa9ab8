# Perl's Gearman::Client and Gearman::Worker over TLS. Use: perl tls_gearman.pl HOST PORT CA
use strict;
use warnings;
use Gearman::Client;
use Gearman::Worker;

my ($host, $port, $ca) = @ARGV;
my @servers = ({ host => $host, port => $port, use_ssl => 1, ca_file => $ca });
my $pid = fork() // die "fork: $!";
if ($pid == 0) {
    my $worker = Gearman::Worker->new(job_servers => [@servers]);
    $worker->register_function(reverse => sub { return scalar reverse $_[0]->arg });
    $worker->work(stop_if => sub { $_[0] }) while getppid() != 1;
    exit 0;
}
my $client = Gearman::Client->new(job_servers => [@servers]);
my $big    = 'x' x 200_000 . 'y';
my $small  = $client->do_task(reverse => 'abc');
my $large  = $client->do_task(reverse => $big);
kill 'KILL', $pid;
waitpid $pid, 0;
die "small" unless $small && $$small eq 'cba';
die "large" unless $large && $$large eq scalar reverse $big;
print "ok\n";
