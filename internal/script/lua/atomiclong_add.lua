-- Add to a number. Running it twice does what running it once does.
-- KEYS  1 the number
--       2 the mark of the lane
-- ARGV  1 what to add
--       2 number of the request
--       3 how long to remember it, in ms
-- RETURN  the number afterwards, as text
local known = recall(KEYS[2], ARGV[2])
if known then return known end
-- Fails, and changes nothing, where the sum has more than 64 bits. Its reply is a double here.
redis.call('incrby', KEYS[1], ARGV[1])
return remember(KEYS[2], ARGV[2], redis.call('get', KEYS[1]), ARGV[3])
