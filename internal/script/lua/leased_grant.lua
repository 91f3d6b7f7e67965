-- Release the permits of one lease and grant them to clients in the queue. Or leave the queue. Idempotent.
-- USES  clock int64 leased permits queue grant listeners entries share
-- KEYS  1 the number of free permits
--       2 the leases: a sorted set of ids by their end
--       3 the channel of clients that do not queue
--       4 the queue: see lib/queue.lua
-- ARGV  1 the ids of the permits, 16 bytes each
--       2 PUBLISH or SPUBLISH
--       3 a random number from 0 to 99: see lib/queue.lua
--       4 the entry in the queue
-- RETURN  0  some were no longer held; the others were released; the entry is not in the queue any more
--         1 + the number of clients that received the message and do not queue
local publish = ARGV[2]
local back, held = give_back(ARGV[1])
local all = held == #ARGV[1] / 16
local waits = back > 0
if not waits then waits, moved = abandon(ARGV[4]) end
if not waits or not whole(KEYS[1]) then return all and 1 or 0 end
local free, others, wake = share(redis.call('incrby', KEYS[1], back), 0, publish, tonumber(ARGV[3]))
if moved then
  local ends = redis.call('zrange', KEYS[2], 0, 0, 'withscores')[2]
  tell_first(publish, ends and ends - clock() or -1)
end
if back == 0 or free <= 0 or others == 0 and not wake then return all and 1 or 0 end
local heard = told(publish, KEYS[3], string.format('%.0f', free))
return all and 1 + (others or outside(heard, publish, KEYS[3], queue)) or 0
