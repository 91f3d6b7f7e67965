-- Release or add permits. Idempotent.
-- USES  release once int64
-- KEYS  1 the number of free permits
--       2 the mark of the request series
--       3 the channel of the waiters
-- ARGV  1 how many; negative: remove permits
--       2 number of the request
--       3 how long to keep the mark, in ms
--       4 PUBLISH or SPUBLISH
--       5 1: only if the semaphore exists
-- RETURN  0 the semaphore does not exist, 1 + the number of clients that received the message
local known = recall(KEYS[2], ARGV[2])
if known then return known == 'done' and 1 or 0 end
whole(KEYS[1]) -- fails if nothing can be added
-- A server that is out of memory refuses INCRBY, unless the script has written already.
redis.call('pexpire', KEYS[2], ARGV[3])
if ARGV[5] == '1' and redis.call('exists', KEYS[1]) == 0 then
  remember(KEYS[2], ARGV[2], 'missing', ARGV[3])
  return 0
end
local total = redis.call('incrby', KEYS[1], ARGV[1])
remember(KEYS[2], ARGV[2], 'done', ARGV[3])
local heard = redis.pcall(ARGV[4], KEYS[3], total) -- the change is made even if the user may not publish
return 1 + (type(heard) == 'number' and heard or 0)
