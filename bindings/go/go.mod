module promptcache

go 1.19
