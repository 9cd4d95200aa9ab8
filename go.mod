module polystalk

go 1.26.0

require (
	github.com/cespare/xxhash/v2 v2.3.0
	github.com/panjf2000/gnet/v2 v2.10.0
	github.com/valyala/bytebufferpool v1.0.0
	golang.org/x/sys v0.49.0
)
