package Beanstalk;
# A client of beanstalkd's protocol with what Perl brings along. Copy it, and change it as you like.
use strict;
use warnings;
use IO::Socket::INET;

sub new {
    my ($class, $address) = @_;
    my $socket = IO::Socket::INET->new(PeerAddr => $address) or die "$address: $@\n";
    return bless { socket => $socket }, $class;
}

# ask sends a command, and returns the words of a reply that begins with $want. The last word
# of a reply with a body is replaced by the body.
sub ask {
    my ($self, $want, $command, $body) = @_;
    print { $self->{socket} } $command, "\r\n", defined $body ? ($body, "\r\n") : ();
    my $line = readline($self->{socket}) // die "the server closed the connection\n";
    $line =~ s/\r\n\z//;
    my @words = split / /, $line;
    die "$line\n" if $words[0] ne $want;
    if ($want eq 'RESERVED') {
        my $size = pop @words;
        read($self->{socket}, my $job, $size + 2) == $size + 2 or die "the server closed the connection\n";
        push @words, substr($job, 0, $size);
    }
    return @words[1 .. $#words];
}

sub use    { $_[0]->ask('USING',    "use $_[1]") }
sub watch  { $_[0]->ask('WATCHING', "watch $_[1]") }
sub ignore { $_[0]->ask('WATCHING', "ignore $_[1]") }

# put returns the number of the job. The body is bytes, without wide characters.
sub put {
    my ($self, $body, %o) = @_;
    my $size = length $body;
    return ($self->ask('INSERTED', join(' ', 'put', $o{priority} // 100, $o{delay} // 0, $o{ttr} // 60, $size), $body))[0];
}

# reserve waits for a job, and returns its number and body.
sub reserve { $_[0]->ask('RESERVED', 'reserve') }
sub delete  { $_[0]->ask('DELETED',  "delete $_[1]") }
sub release { $_[0]->ask('RELEASED', "release $_[1] 100 " . ($_[2] // 0)) }
sub bury    { $_[0]->ask('BURIED',   "bury $_[1] 100") }
sub touch   { $_[0]->ask('TOUCHED',  "touch $_[1]") }

1;
