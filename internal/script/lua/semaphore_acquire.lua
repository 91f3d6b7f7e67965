-- Take permits if there are enough. Running it twice does what running it once does.
-- KEYS  1 the number of free permits
--       2 the mark of the lane
-- ARGV  1 how many
--       2 number of the request
--       3 how long to remember it, in ms
-- RETURN  1 taken, 0 not enough, -1 there is no such semaphore
local known = recall(KEYS[2], ARGV[2])
if known then return known == 'taken' and 1 or 0 end
local free = number(KEYS[1])
if not free then return -1 end
if less(free, ARGV[1]) then return 0 end
-- A server may forbid some commands: what cannot be noted must not be taken, and what was not taken not be noted.
remember(KEYS[2], ARGV[2], 'failed', ARGV[3])
redis.call('decrby', KEYS[1], ARGV[1])
remember(KEYS[2], ARGV[2], 'taken', ARGV[3])
return 1
