-- Set the number of permits if nobody has. Running it twice does what running it once does.
-- KEYS  1 the number of free permits
--       2 the mark of the lane
--       3 the channel that waiters listen to
-- ARGV  1 how many
--       2 number of the request
--       3 how long to remember it, in ms
--       4 PUBLISH or SPUBLISH
--       5 for how long, in ms; 0: for ever
-- RETURN  1 set, 0 it was set before
local known = recall(KEYS[2], ARGV[2])
if known then return known == 'set' and 1 or 0 end
if redis.call('exists', KEYS[1]) == 1 then
  remember(KEYS[2], ARGV[2], 'exists', ARGV[3])
  return 0
end
redis.call('set', KEYS[1], ARGV[1])
if ARGV[5] ~= '0' then redis.call('pexpire', KEYS[1], ARGV[5]) end
remember(KEYS[2], ARGV[2], 'set', ARGV[3])
redis.pcall(ARGV[4], KEYS[3], ARGV[1]) -- it is done, whether anybody may be told or not
return 1
