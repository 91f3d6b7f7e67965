-- Give back, or add, permits. Running it twice does what running it once does.
-- KEYS  1 the number of free permits
--       2 the mark of the lane
--       3 the channel that waiters listen to
-- ARGV  1 how many; less than zero: fewer
--       2 number of the request
--       3 how long to remember it, in ms
--       4 PUBLISH or SPUBLISH
--       5 1: only if there is such a semaphore
-- RETURN  0 there is no such semaphore, 1 + the clients that heard of it
local known = recall(KEYS[2], ARGV[2])
if known then return known == 'done' and 1 or 0 end
whole(KEYS[1]) -- fails where nothing can be added
-- A server that is out of memory refuses INCRBY, unless the script has written before.
redis.call('pexpire', KEYS[2], ARGV[3])
if ARGV[5] == '1' and redis.call('exists', KEYS[1]) == 0 then
  remember(KEYS[2], ARGV[2], 'missing', ARGV[3])
  return 0
end
local total = redis.call('incrby', KEYS[1], ARGV[1])
remember(KEYS[2], ARGV[2], 'done', ARGV[3])
local heard = redis.pcall(ARGV[4], KEYS[3], total) -- it is done, whether anybody may be told or not
return 1 + (type(heard) == 'number' and heard or 0)
