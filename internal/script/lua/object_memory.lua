-- Return the memory usage of an object.
-- KEYS  its keys
-- RETURN  the sum over its keys in bytes, -1 if none exists
local sum = -1
for _, key in ipairs(KEYS) do
  local bytes = redis.call('memory', 'usage', key)
  if bytes then sum = math.max(sum, 0) + bytes end
end
return sum
