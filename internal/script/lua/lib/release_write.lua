-- The release of a write lock whose writer does not read. It precedes all functions, since these cost as much as its commands.
-- KEYS  1 the lock
--       3 the channel
-- ARGV  1 the writer's field
--       2 hold count afterwards
local channel = KEYS[3] -- of clients that do not queue
local found = redis.call('hmget', KEYS[1], ARGV[1], 'mode')
local freed = found[1] and found[2] == 'write' and ARGV[2] == '0' and redis.call('hlen', KEYS[1]) == 2
if freed then redis.call('del', KEYS[1]) end
