-- Return how long ago an object was used.
-- KEYS  its keys
-- RETURN  the shortest idle time of its keys in s, -1 if none exists
local shortest = -1
for _, key in ipairs(KEYS) do
  local idle = redis.call('object', 'idletime', key)
  if idle and (shortest < 0 or idle < shortest) then shortest = idle end
end
return shortest
