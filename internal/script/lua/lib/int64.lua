-- 64-bit numbers stay text: a number of Lua is exact up to 2^53 only.
-- The text of a number if it is one as the server writes it, else nil.
local function int64(text)
  if text == '0' then return text end
  local sign, digits = string.match(text, '^(-?)([1-9]%d*)$')
  local most = sign == '-' and '9223372036854775808' or '9223372036854775807'
  if digits and (#digits < #most or #digits == #most and digits <= most) then return text end
  return nil
end
local function less(a, b)
  local down, below = string.sub(a, 1, 1) == '-', string.sub(b, 1, 1) == '-'
  if down ~= below then return down end
  if down then a, b = b, a end
  if #a ~= #b then return #a < #b end
  return a < b
end
