-- Release the permits of one lease. Idempotent.
-- USES  clock int64 leased permits
-- KEYS  1 the number of free permits
--       2 the leases: a sorted set of ids by their end
--       3 the channel of the waiters
-- ARGV  1 the ids of the permits, 16 bytes each
--       2 PUBLISH or SPUBLISH
-- RETURN  0  some were no longer held; the others were released
--         1 + the number of clients that received the message
local back, held = give_back(ARGV[1])
local heard = restore(KEYS[1], back, ARGV[2], KEYS[3])
return held == #ARGV[1] / 16 and 1 + heard or 0
