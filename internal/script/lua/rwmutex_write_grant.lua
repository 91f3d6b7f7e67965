-- Release a write lock and grant it to the first writer in its queue. Or stop waiting for it. Idempotent.
-- USES  release_write unqueued give queue grant listeners writes hand clock writers rwmutex readers settle left write entries pass
-- KEYS  1 the lock
--       2 the waiting writers that have priority
--       3 the channel of clients that do not queue
--       4 prefix of all readers' keys
--       5 the queue: see lib/queue.lua
-- ARGV  1 the writer's field
--       2 0: free it
--       3 PUBLISH or SPUBLISH
--       4 a random number from 0 to 99: see lib/queue.lua
-- RETURN  0  the owner does not hold it; it is not in the queue any more
--         1 + the number of clients that received the message and do not queue, or 1 if it was granted to another owner
local reply = not freed and leave_write(publish)
if reply == 0 and depart(ARGV[1], publish) then pass() end
return reply or 1 + (heard and outside(heard, publish, channel, queue) or pass())
