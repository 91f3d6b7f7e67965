-- The release of a mutex.
-- KEYS  1 the lock
-- ARGV  1 owner
--       3 the channel of clients that do not queue
--       4 PUBLISH or SPUBLISH
--       5 a random number from 0 to 99
local channel, message, message2, publish, lot = ARGV[3], '0', nil, ARGV[4], ARGV[5]
local freed = redis.call('hexists', KEYS[1], ARGV[1]) == 1
if freed then redis.call('del', KEYS[1]) end
