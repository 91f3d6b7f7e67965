-- Release a mutex with counted grants and grant it to the first client in its queue. Or leave the queue. Idempotent.
-- USES  free unqueued give queue grant listeners counter fenced hand entries pass
-- KEYS  1 the lock
--       2 the counter, which outlives the lock
--       3 the queue: see lib/queue.lua
-- ARGV  1 owner
--       2 0: free it
--       3 the channel of clients that do not queue
--       4 PUBLISH or SPUBLISH
--       5 a random number from 0 to 99: see lib/queue.lua
-- RETURN  0  the owner does not hold it; it is not in the queue any more
--         1 + the number of clients that received the message and do not queue, or 1 if it was granted to another owner
if not freed and not depart(ARGV[1] .. ':fenced', publish) then return 0 end
local others = heard and outside(heard, publish, channel, queue) or pass()
return freed and 1 + others or 0
