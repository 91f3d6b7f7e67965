-- Take all free permits. Running it twice does what running it once does.
-- KEYS  1 the number of free permits
--       2 the mark of the lane
-- ARGV  1 number of the request
--       2 how long to remember it, in ms
-- RETURN  how many
local known = recall(KEYS[2], ARGV[1])
if known then return tonumber(known) or 0 end
local free = tonumber(redis.call('get', KEYS[1]) or 0)
if not free then return redis.error_reply('ERR the value is not a number') end
free = math.max(free, 0)
if free > 0 then redis.call('decrby', KEYS[1], free) end
remember(KEYS[2], ARGV[1], free, ARGV[2])
return free
