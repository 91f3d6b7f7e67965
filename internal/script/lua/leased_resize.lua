-- Set the total number of permits, taken and free. Idempotent.
-- USES  int64
-- KEYS  1 the number of free permits
--       2 the leases: a sorted set of ids by their end
--       3 the channel of the waiters
-- ARGV  1 how many
--       2 PUBLISH or SPUBLISH
-- RETURN  the number of free permits afterwards; negative if too many are taken
local held = whole(KEYS[1])
local free = held or 0
local more = ARGV[1] - free - redis.call('zcard', KEYS[2])
if more ~= 0 or not held then
  free = redis.call('incrby', KEYS[1], more)
  redis.pcall(ARGV[2], KEYS[3], ARGV[1]) -- the change is made even if the user may not publish
end
return free
