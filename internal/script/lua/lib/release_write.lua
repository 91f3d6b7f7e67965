-- The release of a write lock whose writer does not read. It precedes all functions, since these cost as much as its commands.
-- KEYS  1 the lock
--       2 the waiting writers that have priority
--       3 the channel of clients that do not queue
-- ARGV  1 the writer's field
--       2 hold count afterwards
--       3 PUBLISH or SPUBLISH
--       4 a random number from 0 to 99, if clients queue
local writers, channel, publish, lot = KEYS[2], KEYS[3], ARGV[3], ARGV[4]
local message, message2 = '1', '0' -- see left
local found = redis.call('hmget', KEYS[1], ARGV[1], 'mode')
local freed = found[1] and found[2] == 'write' and ARGV[2] == '0' and redis.call('hlen', KEYS[1]) == 2
if freed then redis.call('del', KEYS[1]) end
