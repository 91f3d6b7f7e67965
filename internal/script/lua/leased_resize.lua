-- Set how many permits there are in all, taken and free. Running it twice does what running it once does.
-- KEYS  1 the number of free permits
--       2 the leases: ids by when they end
--       3 the channel that waiters listen to
-- ARGV  1 how many
--       2 PUBLISH or SPUBLISH
-- RETURN  how many are free afterwards; less than zero: too many are taken
local held = whole(KEYS[1])
local free = held or 0
local more = ARGV[1] - free - redis.call('zcard', KEYS[2])
if more ~= 0 or not held then
  free = redis.call('incrby', KEYS[1], more)
  redis.pcall(ARGV[2], KEYS[3], ARGV[1]) -- it is done, whether anybody may be told or not
end
return free
