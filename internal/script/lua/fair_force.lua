-- Free a fair lock, whichever owner holds it. The queue stays.
-- USES  foreign inspect grant fair
-- KEYS  see lib/fair.lua
-- ARGV  1 PUBLISH or SPUBLISH
--       2 free it only if this owner holds it; '' for any owner
-- RETURN  1 freed, 0 not held (by that owner)
if redis.call('hlen', KEYS[1]) == 0 then return 0 end -- fails on a key of another type
if not lock(KEYS[1], 100) then return foreign(KEYS[1]) end
if ARGV[2] ~= '' and redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return 0 end
redis.call('del', KEYS[1])
local head = first(false)
if head then
  call(ARGV[1], head)
  keep(false)
end
return 1
