-- Let an object end. Running it twice does what running it once does.
-- KEYS  1 the mark of the lane
--       2.. its keys
-- ARGV  1 see lib/object.lua
--       2 number of the request
--       3 how long to remember it, in ms
--       4 PEXPIRE or PEXPIREAT
--       5 in how many ms, or at which ms of the epoch
--       6 what must be the case: NX no end is set, XX one is, GT the new one is later, LT it is sooner
-- RETURN  1 done, 0 it is not the case, or there is no such object
local known = recall(KEYS[1], ARGV[2])
if known then return answered(known) end
if not present(2) then return answer(0) end
local left = -2 -- the object lasts as long as the first of its keys that exists
for i = 2, #types + 1 do
  if left == -2 then left = redis.call('pttl', KEYS[i]) end
end
local new = tonumber(ARGV[5])
if ARGV[4] == 'PEXPIREAT' then
  local clock = redis.call('time')
  new = new - clock[1] * 1000 - math.floor(clock[2] / 1000)
end
-- Servers before Redis 7 do not know these; and all keys must go by the same one.
for must in string.gmatch(ARGV[6], '%u+') do
  if must == 'NX' and left >= 0 or must == 'XX' and left < 0 then return answer(0) end
  if must == 'GT' and (left < 0 or new <= left) or must == 'LT' and left >= 0 and new >= left then return answer(0) end
end
for i = 2, #types + 1 do redis.call(ARGV[4], KEYS[i], ARGV[5]) end
return answer(1)
