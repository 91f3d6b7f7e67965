-- Release a read lock. If no reader is left, grant the lock to the first writer in its queue. Idempotent.
-- KEYS  1 the lock
--       2 prefix of all readers' keys
--       3 the queue: see lib/queue.lua
-- ARGV  1 owner
--       2 0: free it
--       3 PUBLISH or SPUBLISH
--       4 a random number from 0 to 99: see lib/queue.lua
-- RETURN  0  the owner does not hold it; nothing was done
--         1 + the number of clients that received the message and do not queue, or 1 if it is still held or was granted to a writer
local priority = 'holdfast:writers:' .. KEYS[2] -- the waiting writers that have it
return 1 + (heard and outside(heard, ARGV[3], channel, queue) or pass(':write', writes(priority), ARGV[3], tonumber(ARGV[4]), channel, '0'))
